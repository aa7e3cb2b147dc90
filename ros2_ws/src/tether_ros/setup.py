from setuptools import find_packages, setup

NAME = "tether_ros"

setup(
    name=NAME,
    version="0.1.0",
    packages=find_packages(),
    data_files=[
        ("share/ament_index/resource_index/packages", [f"resource/{NAME}"]),
        (f"share/{NAME}", ["package.xml"]),
    ],
    install_requires=["setuptools"],
    zip_safe=True,
    maintainer="Tether maintainers",
    maintainer_email="maintainers@tether.invalid",
    description="What the nodes of Tether share: topics, QoS, the lifecycle node around a stage",
    license="Apache-2.0",
)

from setuptools import find_packages, setup

NAME = "tether_world"

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
    description="Node of the simulated world: MuJoCo, or Isaac Lab in its own Python",
    license="Apache-2.0",
    entry_points={
        "console_scripts": [
            "world = tether_world.world:main",
            "isaac_world = tether_world.isaac_world:main",
            "isaac_sim_shim = tether_world.isaac_sim_shim:main",
        ]
    },
)

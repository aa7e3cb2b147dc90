# syntax=docker/dockerfile:1
# The simulated world and the whole graph, x86-64. Built from the repository's own set-up: what is pinned there is what
# is in here. From the top of the repository:
#
#   docker build -f docker/sim.Dockerfile --target cpu -t tether-sim .
#   docker build -f docker/sim.Dockerfile --target gpu -t tether-sim:gpu .
#
# BASE by digest (ubuntu:24.04@sha256:…) makes the base the same next year, too.
ARG BASE=ubuntu:24.04

FROM ${BASE} AS base
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
ENV DEBIAN_FRONTEND=noninteractive LANG=C.UTF-8
# Ubuntu removes older versions from its archive: a pinned one would break the build with the next security update.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends \
        ca-certificates libegl1 libgl1 libgl1-mesa-dri libosmesa6 make python3 python3-venv \
    && rm -rf /var/lib/apt/lists/*

FROM base AS build
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends g++ git python3-dev \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /opt/tether
COPY . .
# Set-up makes a development key for this machine; a key that is in an image is nobody's, so it does not stay.
RUN TETHER_ROS=wheels TETHER_STATE=/tmp/state sh scripts/setup \
    && rm -rf /tmp/state src/tether/signing/machine_keys.json .setup.lock

FROM base AS cpu
COPY --from=build /opt/tether /opt/tether
# runs/ is where results go: mount a folder of yours over it that user 10001 may write.
RUN useradd --uid 10001 --create-home tether \
    && install -d -o tether -g tether /opt/tether/runs
WORKDIR /opt/tether
USER 10001:10001
ENV PATH=/opt/tether/.venv/bin:$PATH MUJOCO_GL=egl PYTHONDONTWRITEBYTECODE=1
ENTRYPOINT ["tether"]
CMD ["sim", "--episodes", "3"]

# Training, and TensorRT for inference. CUDA comes with the wheels, the driver from the host (NVIDIA container toolkit).
FROM cpu AS gpu
USER 0:0
RUN .venv/bin/python -m pip install --no-cache-dir --no-deps --only-binary :all: -r requirements/train.txt \
    && .venv/bin/python -m pip install --no-cache-dir --only-binary :all: -r docker/tensorrt.txt
USER 10001:10001
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility,graphics

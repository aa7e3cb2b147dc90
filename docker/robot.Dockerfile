# syntax=docker/dockerfile:1
# The robot: ROS 2 Jazzy on arm64 (Raspberry Pi 5), the same graph with the driver in the world's place. On the Pi, or
# elsewhere with --platform linux/arm64, from the top of the repository:
#
#   docker build -f docker/robot.Dockerfile -t tether-robot .
#
# The public keys of docker/keys/*.pub are those whose models this robot executes (docs/robot.md).
# BASE by digest (ros:jazzy-ros-base-noble@sha256:…) makes the base the same next year, too.
ARG BASE=ros:jazzy-ros-base-noble

FROM ${BASE} AS build
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
ENV DEBIAN_FRONTEND=noninteractive LANG=C.UTF-8
# Ubuntu and ROS remove older versions from their archives: a pinned one would break the build with the next update.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends g++ git make python3-dev python3-venv \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /opt/tether
COPY . .
# With the installed Jazzy: requirements/sim-system-ros.txt. GL, which set-up tries, stays in this stage.
# Set-up's development key does not stay, and a physical robot would refuse what it signs.
RUN TETHER_ROS=/opt/ros/jazzy TETHER_STATE=/tmp/state sh scripts/setup \
    && .venv/bin/python -m pip install --no-cache-dir --no-deps --only-binary :all: -r docker/drivers.txt \
    && rm -rf /tmp/state src/tether/signing/machine_keys.json .setup.lock \
    && for key in docker/keys/*.pub; do \
        if [ -e "$key" ]; then .venv/bin/tether sign --install-key "$key"; fi; \
    done

FROM ${BASE} AS robot
# What reads the hardware besides Python: cameras (V4L2), I2C, the firmware's throttling flags.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends i2c-tools python3-venv v4l-utils \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 10001 --create-home tether \
    && install -d -o tether -g tether /var/lib/tether
COPY --from=build /opt/tether /opt/tether
# Versions, state and recordings are in /var/lib/tether, a volume; everything else may be read-only.
ENV PATH=/opt/tether/.venv/bin:$PATH \
    LANG=C.UTF-8 \
    HOME=/var/lib/tether \
    ROS_LOG_DIR=/var/lib/tether/log \
    TETHER_STATE=/var/lib/tether/state \
    PYTHONDONTWRITEBYTECODE=1
WORKDIR /var/lib/tether
USER 10001:10001
VOLUME /var/lib/tether
HEALTHCHECK --interval=30s --timeout=15s --start-period=60s --retries=3 CMD ["/opt/tether/docker/health"]
STOPSIGNAL SIGINT
ENTRYPOINT ["/opt/tether/docker/run-robot"]
CMD []

"""Start-up hook of Tether's virtual environment, so that nothing has to be sourced.

Set-up copies this file into site-packages as `_tether_env.py`, beside `_tether_env.pth` that imports it
whenever the venv's Python starts, and `_tether_env.json` that says which ROS 2 this venv was made for. It
sorts before `ros_wheels_bootstrapper.pth`, whose one re-exec (for LD_LIBRARY_PATH) then sees the right
variables.

With wheels: this venv alone is searched; another ROS sourced in the shell would mix incompatible libraries.
With an installed ROS 2: the variables its setup.bash sets come first, ours before them; where that changes
LD_LIBRARY_PATH, which the loader reads only once, Python is executed again.
"""

import json
import os
import sys

GUARD_OF_WHEELS = "_ROS_WHEELS_BOOTSTRAP_COMPLETE"


def join(first, then):
    """Path list with `first` in front and no entry twice."""
    seen = []
    for entry in [*first, *then]:
        if entry and entry not in seen:
            seen.append(entry)
    return os.pathsep.join(seen)


def entries(environ, name):
    """Path list variable as a list."""
    return [entry for entry in environ.get(name, "").split(os.pathsep) if entry]


def foreign_ros(path, prefix):
    """Whether this folder belongs to a ROS 2 installed elsewhere."""
    if path == prefix or path.startswith(prefix + os.sep):
        return False
    probes = ("rclpy", "librcl.so", os.path.join("share", "ament_index"))
    return any(os.path.exists(os.path.join(path, probe)) for probe in probes)


def for_wheels(environ, prefix):
    """Environment for ROS 2 from wheels in `prefix`."""
    env = dict(environ)
    env["AMENT_PREFIX_PATH"] = prefix
    env["ROS_DISTRO"] = "jazzy"
    env["ROS_VERSION"] = "2"
    for name in ("PYTHONPATH", "LD_LIBRARY_PATH"):
        if name in env:
            env[name] = join([], [e for e in entries(env, name) if not foreign_ros(e, prefix)])
            if not env[name]:
                del env[name]
    if os.path.join(prefix, "lib") not in entries(env, "LD_LIBRARY_PATH"):
        # Inherited from the Python of another venv: the wheels' hook has to run for this one.
        env.pop(GUARD_OF_WHEELS, None)
    return env


def for_system(environ, prefix, captured):
    """Environment for an installed ROS 2; `captured` is what its setup.bash sets, path lists as lists."""
    env = dict(environ)
    for name, value in captured.items():
        env[name] = join(value, entries(env, name)) if isinstance(value, list) else value
    env["AMENT_PREFIX_PATH"] = join([prefix], entries(env, "AMENT_PREFIX_PATH"))
    env["LD_LIBRARY_PATH"] = join([os.path.join(prefix, "lib")], entries(env, "LD_LIBRARY_PATH"))
    return env


def main():
    """Put this process, and with it its children, into the right environment."""
    with open(os.path.splitext(__file__)[0] + ".json", encoding="utf-8") as file:
        facts = json.load(file)
    prefix = sys.prefix
    if facts["ros"] == "wheels":
        env = for_wheels(os.environ, prefix)
        lost = set(entries(os.environ, "PYTHONPATH")) - set(entries(env, "PYTHONPATH"))
        sys.path[:] = [entry for entry in sys.path if entry not in lost]
        again = False
    else:
        env = for_system(os.environ, prefix, facts["environment"])
        again = any(env.get(n) != os.environ.get(n) for n in ("LD_LIBRARY_PATH", "PYTHONPATH"))
    for name in set(os.environ) - set(env):
        del os.environ[name]
    os.environ.update(env)
    if again and not sys.flags.ignore_environment:
        os.execve(sys.executable, sys.orig_argv, env)


if __name__ == "_tether_env":
    main()

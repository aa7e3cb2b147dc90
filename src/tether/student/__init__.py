"""The student: a policy on sensor data only, taught by the actions of a teacher that sees the true state.

observation.py makes arrays of what had arrived, the same in training and at run time; network.py turns them into a
state and an action; collect.py and train.py distil a teacher into it; estimator.py and policy.py run the result.
"""

"""Job scripts: what `predict --script` prints, to be piped to the command of a batch system."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence

from agecli.scaling.selection import MOST_TASKS

SLURM = """#!/bin/bash
#SBATCH --job-name=agecli
#SBATCH --array={array}
#SBATCH --cpus-per-task={cpus}
#SBATCH --mem={memory}G
#SBATCH --requeue
cd {base} || exit
{command} --shard env || [ $? = 1 ]  # 1: done, but some photos gave no age
"""
PBS = """#!/bin/bash
#PBS -N agecli
#PBS -J {array}
#PBS -l select=1:ncpus={cpus}:mem={memory}gb
#PBS -r y
cd {base} || exit
{command} --shard env || [ $? = 1 ]  # 1: done, but some photos gave no age
"""
SGE = """#!/bin/bash
#$ -N agecli
#$ -t {from_one}
#$ -pe smp {cpus}
#$ -l h_vmem={memory}G
#$ -r y
cd {base} || exit
{command} --shard env || [ $? = 1 ]  # 1: done, but some photos gave no age
"""
KUBERNETES = """apiVersion: batch/v1
kind: Job
metadata:
  name: agecli
spec:
  completions: {shards}
  parallelism: {parallel}
  completionMode: Indexed
  backoffLimit: {shards}
  template:
    spec:
      restartPolicy: OnFailure
      containers:
        - name: agecli
          image: agecli  # an image in which agecli is installed
          workingDir: {quoted_base}
          command: ["bash", "-c", {quoted_command}]
          resources:
            requests: {{cpu: "{cpus}", memory: "{memory}Gi"}}
          volumeMounts: [{{name: data, mountPath: {quoted_base}}}]
      volumes:
        - name: data
          persistentVolumeClaim: {{claimName: data}}  # photos and --out
"""
SCRIPTS = {"slurm": SLURM, "pbs": PBS, "sge": SGE, "kubernetes": KUBERNETES}
MOST_PARALLEL = 100


def script(system: str, arguments: Sequence[str], base: str, shards: int, cpus: int) -> str:
    """The script of a job array for `agecli ARGUMENTS --shard env`.

    system: a name in SCRIPTS;   base: the working directory;   shards: of the plan;   cpus: of each task.
    Exit code 1, which means that some inputs gave no result, is no failure of a task.
    """
    tasks = min(shards, MOST_TASKS) if system in ("slurm", "sge") else shards
    command = shlex.join([sys.executable, "-m", "agecli", *arguments])
    return SCRIPTS[system].format(
        array=f"0-{tasks - 1}",
        from_one=f"1-{tasks}",
        shards=shards,
        parallel=min(shards, MOST_PARALLEL),
        cpus=cpus,
        memory=2 + cpus,
        base=shlex.quote(base),
        command=command,
        quoted_base=json.dumps(base),
        quoted_command=json.dumps(f"{command} --shard env || [ $? = 1 ]"),
    )

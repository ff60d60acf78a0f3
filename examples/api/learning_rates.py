"""Train with several learning rates, wait for all, and compare them. Each `# %%` is a cell in editors that know notebooks.

python learning_rates.py EXPERIMENT HOST 1e-5 3e-5 1e-4
"""

# %%
import sys

from armada.api import Armada, ArmadaError

# %%


def main(experiment: str, host: str, rates: list[str]) -> int:
    """Launch a run for each learning rate; print how each ended, and the best losses."""
    fleet = Armada()
    changes = {rate: [f"train.learning_rate={rate}"] for rate in rates}
    (plan,) = fleet.plan(experiment, hosts=[host], changes=changes[rates[0]])
    if plan.outcome != "possible":
        print(f"{host}: {plan.outcome}: {'; '.join(plan.problems)}", file=sys.stderr)
        return 1
    started = [fleet.launch(experiment, host=host, name=f"lr-{rate}", changes=changes[rate]) for rate in rates]
    ended = [fleet.wait(run) for run in started]
    for run, synced in zip(ended, fleet.sync(*ended), strict=True):
        print(run.run_id, run.state, run.message or "", *synced.problems, sep="  ")
    if len(ended) > 1:
        for each in fleet.compare(*ended).runs:
            print(each.run.name, each.best, each.cost, sep="  ")
    return 0


# %%
if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    try:
        sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
    except ArmadaError as error:
        sys.exit(f"{error}\n  → {error.hint}" if error.hint else str(error))

"""A data-analysis agent: it loads the data once, and every later question is one short line about data in memory.

Start a server, then run: PYTHONPATH=python python3 examples/python-data-analysis/data_analysis.py
"""

from dormouse import Sandbox

CONVERSATION = "example-data-analysis"


def run_python(code: str) -> str:
    """The tool that the model gets. It also returns errors, so that the model can read them and try again."""
    run = Sandbox.get_or_create(CONVERSATION).run_code(code, timeout=30)
    pictures = sum(1 for result in run.results if result.png)
    shown = [run.stdout.strip(), run.text or "", f"[{pictures} picture]" if pictures else ""]
    if run.error:
        shown.append(f"{run.error.name}: {run.error.message}")
    return "\n".join(part for part in shown if part)


def sales() -> str:
    rows = ((month, region, 100 * month + 7 * len(region)) for month in range(1, 13) for region in ("EU", "US", "APAC"))
    return "month,region,revenue\n" + "".join(f"{month},{region},{revenue}\n" for month, region, revenue in rows)


# What a model would write, and what it reads. The third line has a mistake; all variables survive it.
TODAY = [
    ("import pandas as pd; df = pd.read_csv('/root/sales.csv'); df.shape", "(36, 3)"),
    ("df.groupby('region').revenue.sum().idxmax()", "'APAC'"),
    ("df.groupby('month').profit.sum()", "AttributeError: 'DataFrameGroupBy' object has no attribute 'profit'"),
    ("monthly = df.groupby('month').revenue.sum(); int(monthly.max())", "3656"),
    ("monthly.plot(); None", "[1 picture]"),
]
TOMORROW = [
    ("df[df.region == 'EU'].revenue.mean().item()", "664.0"),
    ("int(monthly.idxmin())", "1"),
]


def ask(questions: "list[tuple[str, str]]") -> None:
    for code, expected in questions:
        answer = run_python(code)
        print(f">>> {code}\n{answer}")
        assert answer == expected, f"{answer!r} instead of {expected!r}"


sandbox = Sandbox.get_or_create(CONVERSATION)
try:
    sandbox.files.write("/root/sales.csv", sales())
    ask(TODAY)
    sandbox.standby("stored")  # it would also do this by itself: no process, no memory, only bytes on disk
    assert sandbox.info().state == "standby"
    ask(TOMORROW)
finally:
    sandbox.delete()

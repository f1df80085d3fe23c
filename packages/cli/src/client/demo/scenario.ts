/**
 * The code of an agent that analyses one big table. It is deterministic, so both ways of running it give the same
 * answers.
 */
export interface Scenario {
  readonly preamble: string
  readonly questions: readonly string[]
  readonly whatIfs: readonly string[]
}

export function createScenario(rows: number): Scenario {
  return { preamble: preamble(rows), questions: QUESTIONS, whatIfs: WHAT_IFS }
}

function preamble(rows: number): string {
  return `import numpy as np
import pandas as pd

rng = np.random.default_rng(7)
n = ${rows}
regions = ["EU", "US", "APAC", "LATAM", "MEA", "CA"]
df = pd.DataFrame({
    "day": rng.integers(0, 730, n, dtype="int16"),
    "region": pd.Categorical.from_codes(rng.integers(0, 6, n, dtype="int8"), regions),
    "product": rng.integers(0, 500, n, dtype="int16"),
    "units": rng.poisson(3, n),
    "price": rng.gamma(2.0, 20.0, n),
    "discount": rng.beta(1, 9, n),
})
cost = pd.Series(rng.uniform(5, 15, 500))
df["revenue"] = df.units * df.price * (1 - df.discount)
df["margin"] = df.revenue - df.units * df["product"].map(cost)
df["month"] = df.day // 30
`
}

const QUESTIONS = [
  'print(df.groupby("region", observed=True).revenue.sum().round().idxmax())',
  'print(df[df.region == "EU"].revenue.mean().round(2))',
  'print(df.groupby("product").margin.sum().nlargest(3).index.tolist())',
  'print(round(df.discount.corr(df.units), 4))',
  'print(df.groupby("month").revenue.sum().idxmin())',
  'print(round((df.margin < 0).mean(), 4))',
  'print(df[df.region == "US"].groupby("product").units.sum().idxmax())',
  'print(df.revenue.quantile([0.5, 0.9, 0.99]).round(1).tolist())',
  'print(df.groupby("day").revenue.sum().rolling(7).mean().idxmax())',
  'print(df.pivot_table("margin", "month", "region", observed=True).round(1).stack().idxmax())',
]

const WHAT_IFS = [0.02, 0.04, 0.06, 0.08, 0.1].map(
  (cap) =>
    `capped = df.units * df.price * (1 - df.discount.clip(upper=${cap}))\nprint(${cap}, round(capped.sum() / df.revenue.sum() - 1, 4))`,
)

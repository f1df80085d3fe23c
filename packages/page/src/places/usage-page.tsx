import type { Dormouse } from 'dormouse'
import { useState } from 'preact/hooks'
import { client } from '../client.ts'
import { Chart } from '../parts/chart.tsx'
import { Table } from '../parts/table.tsx'
import { useRead } from '../parts/use-read.ts'
import { Link } from '../router.tsx'
import { count, money } from '../words.ts'

type Report = Awaited<ReturnType<Dormouse['usage']>>

const DAY_MS = 86_400_000
const SPANS = { '7 days': 7, '30 days': 30 } as const
const ROWS_MAX = 200

/** What was used, what it cost, and what it would have cost without sleep. */
export function UsagePage() {
  const [span, setSpan] = useState<keyof typeof SPANS>('7 days')
  const { value, problem } = useRead((signal) => readDays(SPANS[span], signal), span)
  return (
    <section>
      <header class="head">
        <h1>Usage</h1>
        <fieldset class="looks">
          <legend class="hidden">Time</legend>
          {(Object.keys(SPANS) as (keyof typeof SPANS)[]).map((name) => (
            <button key={name} type="button" aria-pressed={span === name} onClick={() => setSpan(name)}>
              {name}
            </button>
          ))}
        </fieldset>
        {problem !== undefined && <span class="problem">{problem}</span>}
      </header>
      {value !== undefined && <Report {...value} />}
    </section>
  )
}

interface Days {
  readonly total: Report
  readonly days: readonly Report[]
}

/** One report per day, and one of all of them. */
async function readDays(daysBack: number, signal: AbortSignal): Promise<Days> {
  const today = Math.floor(Date.now() / DAY_MS) * DAY_MS
  const starts = Array.from({ length: daysBack }, (_, index) => today - (daysBack - 1 - index) * DAY_MS)
  const iso = (ms: number) => new Date(ms).toISOString()
  const [total, ...days] = await Promise.all([
    client.usage({ from: iso(starts[0] ?? today), signal }),
    ...starts.map((from) =>
      client.usage({ from: iso(from), to: iso(Math.min(from + DAY_MS, Date.now())), signal }),
    ),
  ])
  return { total, days }
}

function Report({ total: report, days }: Days) {
  const { total, currency } = report
  const times = days.map(({ from }) => Date.parse(from) / 1000)
  const figures: [string, string][] = [
    ['cost', money(total.cost, currency)],
    ['always on', money(total.alwaysOnCost, currency)],
    ['saved', money(Math.max(0, total.alwaysOnCost - total.cost), currency)],
    ['tokens saved', count(total.savedTokens)],
    ['wakes', count(total.wakes)],
    ['forks', count(total.forks)],
    ['CPU', `${total.cpuSeconds.toFixed(1)} s`],
  ]
  return (
    <>
      <dl class="summary">
        {figures.map(([name, value]) => (
          <div key={name} class="figure">
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
      <div class="charts">
        <Chart
          title={`Cost per day, ${currency}`}
          times={times}
          series={[
            { name: 'cost', colour: '--running', values: days.map(({ total: day }) => day.cost) },
            { name: 'always on', colour: '--stored', values: days.map(({ total: day }) => day.alwaysOnCost) },
          ]}
        />
        <Chart
          title="Tokens saved per day"
          times={times}
          series={[
            { name: 'tokens', colour: '--accent', values: days.map(({ total: day }) => day.savedTokens) },
          ]}
        />
        <Chart
          title="Awake per day, hours"
          times={times}
          series={[
            {
              name: 'awake',
              colour: '--frozen',
              values: days.map(({ total: day }) => day.runningSeconds / 3600),
            },
          ]}
        />
      </div>
      {report.keys.length > 1 && <PerKey {...report} />}
      <PerSandbox {...report} />
    </>
  )
}

function PerKey({ keys, currency }: Report) {
  const names = useRead((signal) => readNames(signal), 'keys')
  return (
    <Table
      label="Usage per key"
      head={['Key', 'Awake', 'CPU', 'Wakes', 'Tokens saved', 'Cost', 'Always on']}
      empty="Nothing was used."
      rows={[...keys]
        .sort((one, other) => other.cost - one.cost)
        .map((one) => [
          names.value?.get(one.keyId) ?? one.keyId,
          `${one.runningSeconds.toFixed(1)} s`,
          `${one.cpuSeconds.toFixed(1)} s`,
          count(one.wakes),
          count(one.savedTokens),
          money(one.cost, currency),
          money(one.alwaysOnCost, currency),
        ])}
    />
  )
}

/** Names of keys by id. Only an administrator sees more than one key. */
async function readNames(signal: AbortSignal): Promise<Map<string, string>> {
  const { items } = await client.http.json<{ items: { id: string; name: string }[] }>({
    path: '/v1/keys',
    query: { limit: 1000 },
    signal,
  })
  return new Map(items.map(({ id, name }) => [id, name]))
}

function PerSandbox({ sandboxes, currency }: Report) {
  return (
    <Table
      label="Usage per sandbox"
      head={['Sandbox', 'Awake', 'CPU', 'Memory', 'Wakes', 'Cost', 'Always on']}
      empty="Nothing was used."
      rows={[...sandboxes]
        .sort((one, other) => other.cost - one.cost)
        .slice(0, ROWS_MAX)
        .map((one) => [
          one.deleted ? (
            `${one.name ?? one.sandboxId} (deleted)`
          ) : (
            <Link key="name" to={`/sandboxes/${one.sandboxId}`}>
              {one.name ?? one.sandboxId}
            </Link>
          ),
          `${one.runningSeconds.toFixed(1)} s`,
          `${one.cpuSeconds.toFixed(1)} s`,
          `${one.memoryGbSeconds.toFixed(1)} GB·s`,
          count(one.wakes),
          money(one.cost, currency),
          money(one.alwaysOnCost, currency),
        ])}
    />
  )
}

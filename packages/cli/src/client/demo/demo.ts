import { formatBytes, formatMs } from '../../format/amounts.ts'
import { formatTable } from '../../format/table.ts'
import type { Call } from '../call.ts'
import { UsageError } from '../cli-error.ts'
import { countTokens } from './count-tokens.ts'
import { type Answered, DemoSandboxes } from './demo-sandboxes.ts'
import { type FreshOutcome, runInFreshSandboxes } from './run-in-fresh-sandboxes.ts'
import { type KeptOutcome, runInOneSandbox } from './run-in-one-sandbox.ts'
import { createScenario } from './scenario.ts'

interface DemoFlags {
  readonly rows: number
  readonly keep?: boolean
}

/** Runs the scenario in one sandbox and in fresh sandboxes, and compares the measurements. */
export async function demo(call: Call, { rows, keep = false }: DemoFlags): Promise<void> {
  if (!Number.isInteger(rows) || rows < 1000)
    throw new UsageError('--rows needs a whole number of at least 1000')
  const scenario = createScenario(rows)
  const say = (line: string) => {
    if (!call.isJson) call.io.stdout.write(`${line}\n`)
  }
  await using sandboxes = new DemoSandboxes(call.client, { signal: call.signal, keep })
  say(
    `One sandbox that remembers: a data frame of ${rows.toLocaleString('en')} rows, ten questions, five what-ifs.\n`,
  )
  const kept = await runInOneSandbox(sandboxes, scenario, say)
  say('\nThe same with a fresh sandbox for each question: everything is sent and built again.\n')
  const total = scenario.questions.length + scenario.whatIfs.length
  using progress = call.progress(`0 of ${total} answered`)
  const fresh = await runInFreshSandboxes(sandboxes, scenario, (count) =>
    progress.update(`${count} of ${total} answered`),
  )
  progress[Symbol.dispose]()
  const outcome = compare(kept, fresh)
  call.printResult({ rows, ...outcome, kept, fresh }, `${formatOutcome(outcome)}\n`)
  const same = outcome.sameAnswers
    ? 'Both ways gave the same answers.'
    : 'The two ways gave DIFFERENT answers.'
  call.note(
    `${same} Memory is what the kernel charges to the sandboxes. Tokens are those of o200k_base in the code that was sent, counted once when written and once more as history.`,
  )
  if (!keep) return
  sandboxes.release(kept.sandboxId)
  call.note(`The sandbox still exists. Run \`dormouse repl ${kept.sandboxId}\` and type df.`)
}

type Outcome = ReturnType<typeof compare>

function compare(kept: KeptOutcome, fresh: FreshOutcome) {
  const [keptTokens, freshTokens] = [countTokens(kept.sent), countTokens(fresh.sent)]
  const answers = ({ questions, whatIfs }: KeptOutcome | FreshOutcome) =>
    JSON.stringify([...questions, ...whatIfs].map(({ text }) => text))
  return {
    sameAnswers: answers(kept) === answers(fresh),
    questionsMs: { kept: kept.createMs + kept.loadMs + sum(kept.questions), fresh: sum(fresh.questions) },
    medianQuestionMs: { kept: median(kept.questions), fresh: median(fresh.questions) },
    whatIfsMs: { kept: kept.whatIfsMs, fresh: sum(fresh.whatIfs) },
    memoryBytes: { kept: kept.memoryBytes, fresh: fresh.memoryBytes },
    whatIfsMemoryBytes: {
      kept: kept.memoryBytes + kept.childrenMemoryBytes,
      fresh: fresh.whatIfsMemoryBytes,
    },
    tokensWritten: { kept: keptTokens.written, fresh: freshTokens.written },
    tokensWithHistory: { kept: keptTokens.withHistory, fresh: freshTokens.withHistory },
  }
}

function formatOutcome(outcome: Outcome): string {
  const row = (what: string, pair: { kept: number; fresh: number }, format: (value: number) => string) => [
    what,
    format(pair.kept),
    format(pair.fresh),
    `${(pair.fresh / pair.kept).toFixed(1)} ×`,
  ]
  const plain = (value: number) => value.toLocaleString('en')
  return `\n${formatTable([
    ['', 'REMEMBERS', 'FRESH EACH TIME', ''],
    row('time: ten questions, with loading', outcome.questionsMs, formatMs),
    row('time: median question', outcome.medianQuestionMs, formatMs),
    row('time: five what-ifs', outcome.whatIfsMs, formatMs),
    row('RAM: one sandbox', outcome.memoryBytes, formatBytes),
    row('RAM: five what-ifs at once', outcome.whatIfsMemoryBytes, formatBytes),
    row('tokens: written by the model', outcome.tokensWritten, plain),
    row('tokens: with history', outcome.tokensWithHistory, plain),
  ])}`
}

function sum(answers: readonly Answered[]): number {
  return answers.reduce((total, { ms }) => total + ms, 0)
}

function median(answers: readonly Answered[]): number {
  const times = answers.map(({ ms }) => ms).sort((a, b) => a - b)
  return times[Math.floor(times.length / 2)] ?? 0
}

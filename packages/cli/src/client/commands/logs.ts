import { setTimeout as sleep } from 'node:timers/promises'
import { DormouseError, type RunEvent, type Sandbox } from 'dormouse'
import { formatDistance, formatTime } from '../../format/amounts.ts'
import type { Call } from '../call.ts'
import { findByReference } from '../find-sandbox.ts'
import { showEvent } from '../show-event.ts'
import { shortName } from './ls.ts'

interface LogsFlags {
  readonly follow?: boolean
  readonly last: number
  readonly since?: number
}

type Run = Awaited<ReturnType<Sandbox['runs']['get']>>
type ListedRun = Omit<Run, 'result'>

/** How often `--follow` looks for new runs. */
const POLL_MS = 500
const PAGE = 100
/** How much code is shown of each run. All of it if the run was asked for. */
const CODE_LINES = 20

export async function logs(
  call: Call,
  ref: string,
  runRef: string | undefined,
  { follow = false, last, since = Number.NEGATIVE_INFINITY }: LogsFlags,
): Promise<void> {
  const sandbox = await call.sandbox(ref)
  if (runRef !== undefined)
    return showRun(call, sandbox, await findRun(call, sandbox, runRef), { follow, isAlone: true })
  const known = await newestRuns(call, sandbox)
  const seen = new Set(known.map(({ runId }) => runId))
  const wanted = known.filter(({ startedAt }) => Date.parse(startedAt) >= since).slice(0, last)
  for (const run of wanted.reverse()) await showRun(call, sandbox, run, { follow })
  if (known.length === 0 && !follow) call.note(`${shortName(sandbox)} has not run anything yet.`)
  else if (wanted.length === 0 && !follow) call.note(`${shortName(sandbox)} has not run anything since then.`)
  while (follow) {
    for (const run of (await newestRuns(call, sandbox)).reverse()) {
      if (seen.has(run.runId)) continue
      seen.add(run.runId)
      await showRun(call, sandbox, run, { follow })
    }
    await sleep(POLL_MS, undefined, { signal: call.signal })
  }
}

/** Newest first. */
async function newestRuns({ signal }: Call, { runs }: Sandbox): Promise<ListedRun[]> {
  const { items } = await runs.list({ signal }).page({ limit: PAGE })
  return [...items]
}

async function findRun({ signal }: Call, sandbox: Sandbox, ref: string): Promise<ListedRun> {
  const all = await sandbox.runs.list({ signal }).all()
  const named = all.map((run) => ({ id: run.runId, run }))
  const list = `dormouse logs ${shortName(sandbox)}`
  return findByReference(ref, named, { what: `run of ${shortName(sandbox)}`, idPrefix: 'run-', list }).run
}

async function showRun(
  call: Call,
  sandbox: Sandbox,
  run: ListedRun,
  { follow, isAlone = false }: { follow: boolean; isAlone?: boolean },
): Promise<void> {
  const { runId } = run
  call.note(titleOf(run))
  for (const line of codeLines(run, isAlone ? Number.POSITIVE_INFINITY : CODE_LINES)) call.note(line)
  try {
    for await (const event of sandbox.runs.events(runId, { follow, signal: call.signal }))
      show(call, run, event)
  } catch (error) {
    // A run whose events are gone must not stop the others from being shown.
    if (!(error instanceof DormouseError) || !['not_found', 'burrow_ended'].includes(error.code)) throw error
    call.note(`dormouse: ${error.message}`)
  }
}

/** `==> run-… 2026-01-31T12:00:05Z (3 min ago) python in default: exit status 1`. */
function titleOf({ runId, startedAt, language, context, state, exitCode }: ListedRun): string {
  const ago = formatDistance(Date.parse(startedAt), Date.now())
  const outcome = exitCode === undefined ? state : `exit status ${exitCode}`
  return `==> ${runId} ${formatTime(startedAt)} (${ago} ago) ${language} in ${context}: ${outcome}`
}

/** Where they differ from those of Python. */
const PROMPTS: Readonly<Partial<Record<ListedRun['language'], readonly [string, string]>>> = {
  bash: ['$ ', '> '],
  javascript: ['> ', '| '],
  typescript: ['> ', '| '],
}

/** The code as at a prompt. */
function codeLines({ code, isCodeCut = false, language }: ListedRun, limit: number): string[] {
  if (code === undefined) return []
  const [first, more] = PROMPTS[language] ?? ['>>> ', '... ']
  const lines = code.trimEnd().split('\n')
  const shown = lines.slice(0, limit).map((line, index) => `${index === 0 ? first : more}${line}`)
  const hidden = lines.length - shown.length
  if (isCodeCut) shown.push('… the rest of the code was not kept')
  else if (hidden > 0) shown.push(`… and ${hidden} more lines`)
  return shown
}

function show(call: Call, run: ListedRun, event: RunEvent): void {
  const { runId, startedAt, language, code, isCodeCut } = run
  const about = event.type === 'start' ? { startedAt, language, code, isCodeCut } : {}
  if (call.isJson) call.printJsonLine({ runId, ...event, ...about })
  else showEvent(event, call.io)
}

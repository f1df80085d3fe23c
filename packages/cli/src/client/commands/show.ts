import type { Sandbox, SandboxInfo, Snapshot } from 'dormouse'
import { formatBytes, formatDistance, formatDuration, formatTime } from '../../format/amounts.ts'
import { formatFields } from '../../format/table.ts'
import type { Call } from '../call.ts'
import { shortName, stateText } from './ls.ts'
import { copiedText } from './why.ts'

const LAST_RUNS = 5
/** How much of the code of a run is shown, on one line. */
const CODE_CHARACTERS = 60

type Reasons = Awaited<ReturnType<Sandbox['why']>>
type Metrics = Awaited<ReturnType<Sandbox['metrics']>>
type Run = Awaited<ReturnType<ReturnType<Sandbox['runs']['list']>['all']>>[number]

interface Shown {
  readonly info: SandboxInfo
  readonly why: Reasons
  readonly usage: Metrics['usage']
  readonly snapshots: readonly Snapshot[]
  readonly runs: readonly Run[]
}

/** Shows everything about one sandbox that can be read without waking it. */
export async function show(call: Call, ref: string): Promise<void> {
  const { client, signal } = call
  const sandbox = await call.sandbox(ref)
  const [why, { usage }, snapshots, runs] = await Promise.all([
    sandbox.why({ signal }),
    sandbox.metrics({ signal }),
    client.snapshots.list({ sandboxId: sandbox.id, signal }).all(),
    sandbox.runs.list({ signal }).page({ limit: LAST_RUNS }),
  ])
  const shown: Shown = { info: sandbox.info, why, usage, snapshots, runs: runs.items }
  const { info, ...others } = shown
  call.printResult({ ...info, ...others }, describe(shown))
}

function describe(shown: Shown): string {
  const { info, why, snapshots, runs } = shown
  const now = Date.now()
  const ago = (time: string) => `${formatTime(time)} (${formatDistance(Date.parse(time), now)} ago)`
  return formatFields([
    ['name', info.name],
    ['id', info.id],
    ['state', `${stateText(info)}, for ${formatDistance(Date.parse(info.stateSince), now)}`],
    ['why', why.summary],
    ['copied at a sleep', copiedText(why.copied)],
    ['damaged', info.damage?.reason],
    ['lost since', info.lostSince && ago(info.lostSince)],
    ['template', info.template],
    ['isolation', info.isolation === 'process' ? undefined : info.isolation],
    ['forked from', info.forkedFrom],
    ['created', ago(info.createdAt)],
    ['last used', ago(info.lastActiveAt)],
    ...policyFields(info),
    ...usageFields(shown),
    ['volumes', info.volumes.map(mountText).join(' ') || undefined],
    ['network', networkText(info)],
    ['secrets', info.secrets.join(' ') || undefined],
    [
      'labels',
      Object.entries(info.metadata)
        .map((pair) => pair.join('='))
        .join(' ') || undefined,
    ],
    ...snapshots.map(
      (snapshot, index) => [index === 0 ? 'snapshots' : '', snapshotText(snapshot, now)] as const,
    ),
    ...runs.map((run, index) => [index === 0 ? 'latest runs' : '', runText(run, now)] as const),
  ])
}

type Field = readonly [string, string | undefined]

function policyFields(info: SandboxInfo): Field[] {
  const { idleTimeoutMs, storeAfterMs, wakeOnTimer, wakesAt, connections, expires, ephemeral } = info
  const { checkpointEveryMs } = info
  const wakesFor = [
    wakeOnTimer ? `for timers${wakesAt === undefined ? '' : `, next at ${wakesAt}`}` : '',
    connections.wakeOnData ? 'for data on its connections' : '',
  ]
  const sleeps = idleTimeoutMs === 0 ? 'never' : `after ${formatDuration(idleTimeoutMs)} without work`
  const times = [
    expires?.afterMs === undefined ? '' : `${formatDuration(expires.afterMs)} after its creation`,
    expires?.idleMs === undefined ? '' : `${formatDuration(expires.idleMs)} after its last use`,
    expires?.at === undefined ? '' : `at ${expires.at}`,
  ]
  return [
    [ephemeral ? 'deleted' : 'sleeps', sleeps],
    ['stored on disk', ephemeral ? undefined : `${formatDuration(storeAfterMs)} later`],
    ['wakes', wakesFor.filter(Boolean).join(', and ') || undefined],
    ['connections', keptFor(connections.keepAsleepMs)],
    ['checkpoints', checkpointText(checkpointEveryMs)],
    ['expires', times.filter(Boolean).join(', or ') || undefined],
  ]
}

function keptFor(keepAsleepMs: number): string {
  return keepAsleepMs === 0
    ? 'end when it sleeps'
    : `kept for ${formatDuration(keepAsleepMs)} while it sleeps`
}

function usageFields({ info: { limits }, usage }: Pick<Shown, 'info' | 'usage'>): Field[] {
  const used = (text: string | undefined, limit: string) =>
    text === undefined ? `at most ${limit}` : `${text} of ${limit}`
  return [
    ['memory', used(usage && formatBytes(usage.memoryBytes), formatBytes(limits.memoryBytes))],
    ['peak memory', usage && formatBytes(usage.memoryPeakBytes)],
    ['out of memory', usage && usage.oomKills > 0 ? `${usage.oomKills} processes were killed` : undefined],
    ['processes', used(usage && String(usage.pids), String(limits.pids))],
    ['CPUs', String(limits.cpus)],
    ['disk', `at most ${formatBytes(limits.diskBytes)} in ${limits.files} files`],
  ]
}

function mountText({ volume, path, readOnly }: SandboxInfo['volumes'][number]): string {
  return `${volume}:${path}${readOnly ? ':ro' : ''}`
}

function networkText({ network: { mode, allow, deny } }: SandboxInfo): string {
  if (deny !== undefined) return `${mode}, except ${deny.join(' ')}`
  return mode === 'allow' ? `only ${allow.join(' ') || 'nothing'}` : mode
}

function snapshotText(snapshot: Snapshot, now: number): string {
  const { bytes, createdAt, isHead, damage, kind } = snapshot
  const size = formatBytes(bytes.images + bytes.memory)
  const notes = [isHead ? 'wakes from it' : '', damage === undefined ? '' : 'damaged'].filter(Boolean)
  const age = `${formatDistance(Date.parse(createdAt), now)} ago`
  return [shortName(snapshot), kind, size, age, ...notes].join(', ')
}

function runText({ runId, state, startedAt, exitCode, context, code }: Run, now: number): string {
  const outcome = exitCode === undefined ? state : `exit status ${exitCode}`
  const [line = '', ...more] = (code ?? '').trim().split('\n')
  const shown = line.length > CODE_CHARACTERS || more.length > 0 ? `${line.slice(0, CODE_CHARACTERS)}…` : line
  const what = shown === '' ? '' : `: ${shown}`
  return `${runId}, ${context}, ${formatDistance(Date.parse(startedAt), now)} ago, ${outcome}${what}`
}

/** How often it is saved while it runs. */
export function checkpointText(everyMs: number): string | undefined {
  return everyMs === 0 ? undefined : `every ${formatDuration(everyMs)} while it runs`
}

import { DormouseError, hasErrorCode } from '@dormouse/contracts'

/** CRIU reports these on every run here; they mean nothing. */
const HARMLESS =
  /RLIMIT_NOFILE|Unable to create tun|Can't keep kdat|suspend(ing)? seccomp|stats-(dump|restore)|trim failed|Dumping FAILED|Restoring FAILED/

const REASONS: readonly { pattern: RegExp; reason: string }[] = [
  { pattern: /io_uring/i, reason: 'it has an io_uring open' },
  {
    pattern:
      /is (being )?traced|Unseizable non-zombie|ptrace.*(seize|attach)|Unable to interrupt|SEIZE.*: task pid/i,
    reason: 'it is being traced (gdb, strace)',
  },
  { pattern: /(nested|different|Can't dump).*(namespace|ns )/i, reason: 'it has namespaces of its own' },
  {
    pattern: /Unix socket .* not found|external (stream|socket)|peer .* outside/i,
    reason: 'it has a socket whose other end is outside',
  },
  { pattern: /Can't dump ghost file/, reason: 'it has a deleted file open that is larger than 1 GiB' },
  { pattern: /No space left|ENOSPC/i, reason: 'the disk is full' },
]

/** For refusals that we find without CRIU. `pid` is as the burrow sees it. */
export function cannotBeSaved(pid: number, reason: string): DormouseError {
  return new DormouseError('snapshot_refused', `Process ${pid} cannot be saved: ${reason}.`, {
    details: { pid, reason },
  })
}

/** The processes are killed, because CRIU left its own code in them. */
export function dumpCutOff(): DormouseError {
  return new DormouseError(
    'burrow_ended',
    'The dump was cut off, so the processes of the sandbox were killed.',
    { hint: 'The sandbox goes back to its last snapshot. Its files are kept.' },
  )
}

/** Explains why a dump failed, in words that a user can act on. */
export function explainDumpFailure(output: string): DormouseError {
  const errors = output.split('\n').filter((line) => line.includes('Error') && !HARMLESS.test(line))
  const text = errors.join('\n')
  const pid = /(?:\(pid: |task |pid |Dumping |non-zombie )(?<pid>\d+)/.exec(text)?.groups?.pid
  const known = REASONS.find(({ pattern }) => pattern.test(text))
  const who = pid === undefined ? 'A process' : `Process ${pid}`
  const reason = known?.reason ?? (errors[0]?.replace(/^.*?Error \([^)]*\): /, '') || 'CRIU gave no reason')
  const code = known?.reason === 'the disk is full' ? 'no_space' : 'snapshot_refused'
  return new DormouseError(code, `${who} cannot be saved: ${reason}.`, {
    details: { ...(pid !== undefined && { pid: Number(pid) }), reason, criu: errors.slice(0, 10) },
  })
}

export function explainRestoreFailure(output: string): DormouseError {
  const errors = output.split('\n').filter((line) => line.includes('Error') && !HARMLESS.test(line))
  const reason =
    errors[0]?.replace(/^.*?Error \([^)]*\): /, '') ?? (output.trim().slice(-300) || 'CRIU gave no reason')
  return new DormouseError('restore_failed', `The snapshot could not be restored: ${reason}`, {
    details: { criu: errors.slice(0, 10) },
  })
}

/** Which connections a restore could not bring back. */
export interface BrokenConnections {
  /** Those with a queue of this many bytes. Undefined: it is not known which. */
  readonly queueBytes: number | undefined
}

/** Of an error that `explainRestoreFailure` made; undefined when it has nothing to do with connections. */
export function findBrokenConnections(error: unknown): BrokenConnections | undefined {
  if (!hasErrorCode(error, 'restore_failed')) return undefined
  const lines = error.details?.criu
  const text = Array.isArray(lines) ? lines.join('\n') : ''
  if (!/Error \((?:soccr\/|criu\/sk-(?:tcp|inet)\.c)/.test(text)) return undefined
  // CRIU says from where to where it was, and how much was left: want (from-to:left:piece).
  const queue = /restore [\w -]+ queue data .*want \((?<from>\d+)-\d+:(?<left>\d+):/.exec(text)?.groups
  return { queueBytes: queue === undefined ? undefined : Number(queue.from) + Number(queue.left) }
}

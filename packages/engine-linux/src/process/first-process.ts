import { readFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import type { BurrowEnd } from '@dormouse/engine'

/** PID 1 of a burrow as the host sees it. The start time distinguishes it from a later process with the same number. */
export interface FirstProcess {
  readonly pid: number
  readonly startTime: string
}

/** Reads the pid file of dormouse-init; undefined when it did not get that far. */
export async function findFirstProcess(pidFile: string): Promise<FirstProcess | undefined> {
  return parseFirstProcess(await readFile(pidFile, 'utf8').catch(() => ''))
}

/** Parses the line that dormouse-init writes; undefined for any other line, or for a part of one. */
export function parseFirstProcess(line: string): FirstProcess | undefined {
  const match = /^(?<pid>\d+) (?<startTime>\d+)\n$/.exec(line)
  if (match?.groups === undefined) return undefined
  return { pid: Number(match.groups['pid']), startTime: match.groups['startTime'] ?? '' }
}

export async function isAlive({ pid, startTime }: FirstProcess): Promise<boolean> {
  const fields = readStat(pid)
  return fields[19] === startTime && fields[0] !== 'Z' && fields[0] !== 'X'
}

/** The kernel's letter for the state of a process: T is stopped. Undefined when there is no such process. */
async function findState(pid: number): Promise<string | undefined> {
  return readStat(pid)[0]
}

/**
 * The fields of /proc/<pid>/stat after the command: the state and what follows. The command is in parentheses and may
 * hold anything.
 */
function readStat(pid: number): readonly string[] {
  try {
    // Synchronous: the kernel has it in memory, and the threads of the pool may be busy with a disk.
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  } catch {
    return []
  }
}

export async function killFirstProcess(first: FirstProcess): Promise<void> {
  if (!(await isAlive(first))) return
  try {
    process.kill(first.pid, 'SIGKILL')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}

/** Whether the process ends within `timeoutMs`. */
export async function waitForEnd(first: FirstProcess, timeoutMs: number): Promise<boolean> {
  const deadline = performance.now() + timeoutMs
  for (let pauseMs = 1; await isAlive(first); pauseMs = Math.min(pauseMs * 2, 50)) {
    if (performance.now() > deadline) return false
    await sleep(pauseMs)
  }
  return true
}

/** Reads the last words of PID 1. An empty or missing file means that PID 1 itself was killed. */
export async function readEnd(endFile: string): Promise<BurrowEnd> {
  const text = await readFile(endFile, 'utf8').catch(() => '')
  const match = /^agent (?<how>exited|killed) (?<number>\d+)\n$/.exec(text)
  if (match?.groups === undefined) return { reason: 'killed' }
  const number = Number(match.groups['number'])
  return match.groups['how'] === 'exited'
    ? { reason: 'agent_ended', exitCode: number }
    : { reason: 'agent_ended', signal: number }
}

/** Those of these processes that a signal has stopped. */
export async function findStopped(pids: readonly number[]): Promise<ReadonlySet<number>> {
  const states = await Promise.all(pids.map(async (pid) => ({ pid, state: await findState(pid) })))
  return new Set(states.filter(({ state }) => state === 'T').map(({ pid }) => pid))
}

import { readFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import type { BurrowEnd } from '@dormouse/engine'

/** PID 1 of a burrow as the host sees it. The start time tells it from a later process with the same number. */
export interface FirstProcess {
  readonly pid: number
  readonly startTime: string
}

/** Reads what dormouse-init recorded; undefined when it did not get that far. */
export async function findFirstProcess(pidFile: string): Promise<FirstProcess | undefined> {
  return parseFirstProcess(await readFile(pidFile, 'utf8').catch(() => ''))
}

/** The line in which dormouse-init tells of it; undefined for any other, and for a part of one. */
export function parseFirstProcess(line: string): FirstProcess | undefined {
  const match = /^(?<pid>\d+) (?<startTime>\d+)\n$/.exec(line)
  if (match?.groups === undefined) return undefined
  return { pid: Number(match.groups['pid']), startTime: match.groups['startTime'] ?? '' }
}

export async function isAlive({ pid, startTime }: FirstProcess): Promise<boolean> {
  const fields = readStat(pid)
  return fields[19] === startTime && fields[0] !== 'Z' && fields[0] !== 'X'
}

/** The letter of the kernel for what a process does: T is stopped. undefined when there is none. */
export async function findState(pid: number): Promise<string | undefined> {
  return readStat(pid)[0]
}

/** The fields behind the command, which stands in parentheses and may hold anything: the state, and what follows it. */
function readStat(pid: number): readonly string[] {
  try {
    // At once: the kernel has it in memory, and other threads may be busy with what is not.
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

/** True when it has ended within the time. */
export async function waitForEnd(first: FirstProcess, timeoutMs: number): Promise<boolean> {
  const deadline = performance.now() + timeoutMs
  for (let pauseMs = 1; await isAlive(first); pauseMs = Math.min(pauseMs * 2, 50)) {
    if (performance.now() > deadline) return false
    await sleep(pauseMs)
  }
  return true
}

/** Reads what PID 1 wrote last. Nothing written means that it was killed itself. */
export async function readEnd(endFile: string): Promise<BurrowEnd> {
  const text = await readFile(endFile, 'utf8').catch(() => '')
  const match = /^agent (?<how>exited|killed) (?<number>\d+)\n$/.exec(text)
  if (match?.groups === undefined) return { reason: 'killed' }
  const number = Number(match.groups['number'])
  return match.groups['how'] === 'exited'
    ? { reason: 'agent_ended', exitCode: number }
    : { reason: 'agent_ended', signal: number }
}

import { isIP } from 'node:net'
import type { ContextInfo, GuestInfo, ListeningPort, ProcessInfo } from '@dormouse/engine'
import { AgentValue, malformed } from './agent-value.ts'

export function checkProcessInfo(value: unknown): ProcessInfo {
  const info = new AgentValue(value, 'description of a process')
  return {
    pid: info.pid('pid'),
    command: info.text('command'),
    user: info.text('user'),
    state: info.oneOf('state', ['running', 'exited']),
    ...(info.has('exitCode') && { exitCode: info.exitCode('exitCode') }),
    startedAt: info.time('startedAt'),
    pty: info.flag('pty'),
  }
}

export function checkContextInfo(value: unknown): ContextInfo {
  const info = new AgentValue(value, 'description of a context')
  const isDead = (value as { pid?: unknown } | null)?.pid === null
  return {
    context: info.text('context'),
    user: info.text('user'),
    pid: isDead ? null : info.pid('pid'),
    state: info.oneOf('state', ['starting', 'idle', 'busy', 'dead']),
    restarts: info.count('restarts'),
  }
}

export function checkGuestInfo(value: unknown): GuestInfo {
  const info = new AgentValue(value, 'description of itself')
  const [contexts, processes, runs] = [info.count('contexts'), info.count('processes'), info.count('runs')]
  return { contexts, processes, runs, rssBytes: info.count('rssBytes') }
}

export function checkListeningPort(value: unknown): ListeningPort {
  const info = new AgentValue(value, 'port')
  const address = info.text('address')
  return isIP(address) === 0 ? info.fail() : { port: info.port('port'), address }
}

/** Checks the items of an answer that is an object with one list. */
export function checkList<Item>(answer: unknown, name: string, check: (value: unknown) => Item): Item[] {
  return new AgentValue(answer, 'list').list(name).map(check)
}

export function checkText(value: unknown): string {
  if (typeof value !== 'string') throw malformed('text')
  return value
}

export function checkCount(answer: unknown, name: 'pid' | 'bytes'): number {
  return new AgentValue(answer, 'number').count(name)
}

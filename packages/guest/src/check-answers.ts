import { isIP } from 'node:net'
import { LANGUAGES } from '@dormouse/contracts'
import type {
  BackgroundProcess,
  Completions,
  ContextInfo,
  GuestInfo,
  ListeningPort,
  ProcessInfo,
} from '@dormouse/engine'
import { AgentValue, malformed } from './agent-value.ts'

export function checkProcessInfo(value: unknown): ProcessInfo {
  const info = new AgentValue(value, 'description of a process')
  return {
    processId: info.processId('processId'),
    pid: info.pid('pid'),
    command: info.text('command'),
    user: info.text('user'),
    state: info.oneOf('state', ['running', 'exited']),
    ...(info.has('exitCode') && { exitCode: info.exitCode('exitCode') }),
    startedAt: info.time('startedAt'),
    pty: info.flag('pty'),
  }
}

/** The agent sends at most 64. */
const BACKGROUND_MAX = 64

export function checkBackgroundProcesses(value: unknown): BackgroundProcess[] {
  const processes = checkList(value, 'processes', (one) => {
    const info = new AgentValue(one, 'description of a process')
    return { pid: info.pid('pid'), command: info.text('command') }
  })
  if (processes.length > BACKGROUND_MAX) throw malformed('list of background processes')
  return processes
}

export function checkContextInfo(value: unknown): ContextInfo {
  const info = new AgentValue(value, 'description of a context')
  const isDead = (value as { pid?: unknown } | null)?.pid === null
  return {
    context: info.text('context'),
    // Agents of older versions know only Python contexts.
    language: info.has('language') ? info.oneOf('language', LANGUAGES) : 'python',
    user: info.text('user'),
    pid: isDead ? null : info.pid('pid'),
    state: info.oneOf('state', ['starting', 'idle', 'busy', 'dead']),
    restarts: info.count('restarts'),
  }
}

/** The agent sends at most this many matches, and this many characters in each. */
const MATCHES_MAX = 200
const MATCH_MAX_CHARACTERS = 256
/** At most the code itself. */
const REPLACED_MAX_CHARACTERS = 64 * 1024

export function checkCompletions(value: unknown): Completions {
  const answer = new AgentValue(value, 'list of completions')
  const matches = checkList(value, 'matches', checkText)
  const replaces = answer.text('replaces')
  // A character may count as two here.
  const isLong = matches.some((match) => match.length > 2 * MATCH_MAX_CHARACTERS)
  if (matches.length > MATCHES_MAX || isLong || replaces.length > REPLACED_MAX_CHARACTERS) answer.fail()
  return { matches, replaces, more: answer.flag('more') }
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

export function checkProcessId(answer: unknown): string {
  return new AgentValue(answer, 'process id').processId('processId')
}

export function checkCount(answer: unknown, name: 'bytes'): number {
  return new AgentValue(answer, 'number').count(name)
}

import { isIP } from 'node:net'
import type { ContextInfo, ListeningPort, ProcessInfo } from '@dormouse/engine'
import { malformed } from './file-check.ts'

const CONTEXT_STATES = new Set(['starting', 'idle', 'busy', 'dead'])

/** As with files: sandbox code can take the agent over, so its word is checked. */
export function checkProcessInfo(value: unknown): ProcessInfo {
  const info = fieldsOf(value)
  const holds =
    isPid(info['pid']) &&
    typeof info['command'] === 'string' &&
    typeof info['user'] === 'string' &&
    (info['state'] === 'running' || info['state'] === 'exited') &&
    (info['exitCode'] === undefined || Number.isSafeInteger(info['exitCode'])) &&
    Number.isSafeInteger(info['startedAt']) &&
    typeof info['pty'] === 'boolean'
  if (!holds) throw malformed('description of a process')
  return value as ProcessInfo
}

export function checkContextInfo(value: unknown): ContextInfo {
  const info = fieldsOf(value)
  const holds =
    typeof info['context'] === 'string' &&
    typeof info['user'] === 'string' &&
    (info['pid'] === null || isPid(info['pid'])) &&
    CONTEXT_STATES.has(info['state'] as string) &&
    Number.isSafeInteger(info['restarts'])
  if (!holds) throw malformed('description of a context')
  return value as ContextInfo
}

export function checkListeningPort(value: unknown): ListeningPort {
  const { port, address } = fieldsOf(value)
  const holds = Number.isSafeInteger(port) && (port as number) > 0 && (port as number) <= 65_535
  if (!holds || typeof address !== 'string' || isIP(address) === 0) throw malformed('port')
  return { port: port as number, address }
}

/** Of an answer that is an object with one list in it. */
export function checkList<Item>(answer: unknown, name: string, check: (value: unknown) => Item): Item[] {
  const list = fieldsOf(answer)[name]
  if (!Array.isArray(list)) throw malformed('list')
  return list.map(check)
}

export function checkCount(answer: unknown, name: 'pid' | 'bytes'): number {
  const count = fieldsOf(answer)[name]
  if (!Number.isSafeInteger(count) || (count as number) < 0) throw malformed('number')
  return count as number
}

function isPid(value: unknown): boolean {
  return Number.isSafeInteger(value) && (value as number) > 0
}

function fieldsOf(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {}
}

import { DormouseError } from '@dormouse/contracts'
import type { FileChange, FileStat } from '@dormouse/engine'

const TYPES = new Set(['file', 'directory', 'symlink', 'fifo', 'socket', 'device'])
const CHANGES = new Set(['ready', 'created', 'modified', 'deleted', 'overflow'])

/** Sandbox code can take the agent over, so what it says of files is of the right types or ends the call. */
export function checkFileStat(value: unknown): FileStat {
  const stat = fieldsOf(value)
  const texts = [stat['path'], stat['name'], stat['user'], stat['group']]
  const numbers = [stat['sizeBytes'], stat['mode'], stat['uid'], stat['gid']]
  const holds =
    texts.every((text) => typeof text === 'string') &&
    numbers.every((number) => Number.isSafeInteger(number) && (number as number) >= 0) &&
    Number.isSafeInteger(stat['modifiedAt']) &&
    TYPES.has(stat['type'] as string) &&
    (stat['target'] === undefined || typeof stat['target'] === 'string')
  if (!holds) throw malformed('file description')
  return value as FileStat
}

export function checkFileChange(value: unknown): FileChange {
  const change = fieldsOf(value)
  const isMove = change['type'] === 'moved' && typeof change['from'] === 'string'
  if (typeof change['path'] !== 'string' || !(isMove || CHANGES.has(change['type'] as string))) {
    throw malformed('file change')
  }
  return value as FileChange
}

export function malformed(what: string): DormouseError {
  return new DormouseError('agent_unreachable', `The agent sent a malformed ${what}.`)
}

function fieldsOf(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {}
}

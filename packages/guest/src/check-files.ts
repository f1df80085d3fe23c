import type { FileChange, FileStat } from '@dormouse/engine'
import { AgentValue } from './agent-value.ts'

const TYPES = ['file', 'directory', 'symlink', 'fifo', 'socket', 'device'] as const
const CHANGES = ['ready', 'created', 'modified', 'deleted', 'overflow', 'moved'] as const

export function checkFileStat(value: unknown): FileStat {
  const stat = new AgentValue(value, 'file description')
  return {
    path: stat.text('path'),
    name: stat.text('name'),
    type: stat.oneOf('type', TYPES),
    sizeBytes: stat.count('sizeBytes'),
    mode: stat.count('mode'),
    uid: stat.count('uid'),
    gid: stat.count('gid'),
    user: stat.text('user'),
    group: stat.text('group'),
    modifiedAt: stat.time('modifiedAt'),
    ...(stat.has('target') && { target: stat.text('target') }),
    ...(stat.has('attributes') && { attributes: checkAttributes(stat.object('attributes')) }),
  }
}

function checkAttributes(value: Record<string, unknown>): Record<string, string> {
  const attributes = new AgentValue(value, 'attributes of a file')
  return Object.fromEntries(Object.keys(value).map((name) => [name, attributes.text(name)]))
}

export function checkFileChange(value: unknown): FileChange {
  const change = new AgentValue(value, 'file change')
  const type = change.oneOf('type', CHANGES)
  const path = change.text('path')
  return type === 'moved' ? { type, path, from: change.text('from') } : { type, path }
}

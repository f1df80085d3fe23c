import { isAbsolute, normalize } from 'node:path'
import { DormouseError } from '@dormouse/contracts'
import type { Env } from './env.ts'

const DEFAULT_DATA_DIR = '/var/lib/dormouse'

export interface ServerConfig {
  readonly dataDir: string
}

export function envToConfig(env: Env): ServerConfig {
  return { dataDir: parseDataDir(env.dataDir) }
}

function parseDataDir(value: string | undefined): string {
  if (value === undefined || value === '') return DEFAULT_DATA_DIR
  if (isAbsolute(value)) return normalize(value)
  // A relative one would name another directory whenever the server is started from elsewhere.
  throw new DormouseError('invalid_argument', `DORMOUSE_DATA must be an absolute path (saw "${value}")`, {
    details: { field: 'DORMOUSE_DATA' },
  })
}

import { posix } from 'node:path'
import { DormouseError } from '@dormouse/contracts'
import type { ImageDescription } from '@dormouse/engine'
import { programSettingsSchema } from '../template/program-settings.ts'
import type { PulledImage } from './pull-image.ts'

/** `FROM scratch`. */
export const EMPTY_IMAGE: ImageDescription = {
  name: 'scratch',
  digest: 'scratch',
  env: {},
  cwd: '/',
  user: 'root',
  entrypoint: [],
  cmd: [],
}

/** What an image says about how its programs run. */
export function describeImage(name: string, { config, digest }: PulledImage): ImageDescription {
  const { Env, WorkingDir, User, Entrypoint, Cmd, Healthcheck, Shell } = config.config ?? {}
  const env = Object.fromEntries((Env ?? []).map(splitVariable).filter(([key]) => key !== ''))
  const cwd = posix.resolve('/', WorkingDir || '/')
  const settings = programSettingsSchema.safeParse({ env, cwd, user: User || 'root' })
  if (!settings.success)
    throw new DormouseError(
      'setup_failed',
      'The image has an environment or a user that sandboxes cannot have.',
      {
        cause: settings.error,
      },
    )
  return {
    name,
    digest,
    ...settings.data,
    entrypoint: Entrypoint ?? [],
    cmd: Cmd ?? [],
    ...(Healthcheck?.Test && { healthcheck: Healthcheck.Test }),
    ...(Shell && Shell.length > 0 && { shell: Shell }),
  }
}

function splitVariable(text: string): [string, string] {
  const at = text.indexOf('=')
  return at === -1 ? [text, ''] : [text.slice(0, at), text.slice(at + 1)]
}

import type { ImageDescription } from '@dormouse/engine'
import type { PulledImage } from './pull-image.ts'

/** What an image says about how its programs run. */
export function describeImage(name: string, { config, digest }: PulledImage): ImageDescription {
  const { Env, WorkingDir, User, Entrypoint, Cmd, Healthcheck } = config.config ?? {}
  const env = Object.fromEntries((Env ?? []).map(splitVariable).filter(([key]) => key !== ''))
  return {
    name,
    digest,
    env,
    cwd: WorkingDir || '/',
    user: User || 'root',
    entrypoint: Entrypoint ?? [],
    cmd: Cmd ?? [],
    ...(Healthcheck?.Test && { healthcheck: Healthcheck.Test }),
  }
}

function splitVariable(text: string): [string, string] {
  const at = text.indexOf('=')
  return at === -1 ? [text, ''] : [text.slice(0, at), text.slice(at + 1)]
}

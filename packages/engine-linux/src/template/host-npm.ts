import { z } from 'zod'
import { runCommand } from '../host/run-command.ts'
import { withoutCredentials } from './registry-url.ts'

/**
 * Where the host installs npm packages from, as far as a sandbox can use it. By setting: `registry`,
 * `@scope:registry`.
 */
export type NpmRegistries = ReadonlyMap<string, string>

const SETTING = /^(?:@[\w.~-]+:)?registry$/

/** Asks npm, which knows its own files and variables. A host without npm has no such settings. */
export async function readNpmRegistries(signal: AbortSignal | undefined): Promise<NpmRegistries> {
  // In a directory without a project, whose settings would count too.
  const argv = ['env', '--chdir=/', 'npm', 'config', 'list', '--json'] as const
  const { exitCode, stdout } = await runCommand({ argv, signal })
  return exitCode === 0 ? parseNpmConfig(stdout) : new Map()
}

/** Parses an object of all settings. npm leaves out passwords and tokens; newer versions also addresses with either. */
export function parseNpmConfig(text: string): NpmRegistries {
  const settings = z.record(z.string(), z.unknown()).safeParse(parseJson(text)).data ?? {}
  return new Map(
    Object.entries(settings).flatMap(([name, value]) => {
      if (!SETTING.test(name) || typeof value !== 'string') return []
      return withoutCredentials(value).map((url) => [name, url] as const)
    }),
  )
}

/** Returns the content of /etc/npmrc for a template; undefined when npm needs none. */
export function writeNpmrc(registries: NpmRegistries): string | undefined {
  if (registries.size === 0) return undefined
  return [...registries].map(([name, url]) => `${name}=${url}\n`).join('')
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

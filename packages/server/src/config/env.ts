/** The environment as it is, names and strings only. Nothing else in this package reads it. */
export type Env = Readonly<Record<string, string | undefined>>

export function readEnv(): Env {
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => name.startsWith('DORMOUSE_')))
}

/** The environment as it is, names and strings only. Nothing else in this package reads it. */
export interface Env {
  readonly dataDir?: string | undefined
}

export function readEnv(): Env {
  return { dataDir: process.env.DORMOUSE_DATA }
}

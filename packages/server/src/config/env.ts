/** What other programs are told by: the way out of this host, and where Python packages come from. */
const OF_OTHERS = /^(?:https?_proxy|HTTPS?_PROXY|no_proxy|NO_PROXY|PIP_INDEX_URL|PIP_EXTRA_INDEX_URL)$/

/** The environment as it is, names and strings only. Nothing else in this package reads it. */
export type Env = Readonly<Record<string, string | undefined>>

export function readEnv(): Env {
  return Object.fromEntries(
    Object.entries(process.env).filter(([name]) => name.startsWith('DORMOUSE_') || OF_OTHERS.test(name)),
  )
}

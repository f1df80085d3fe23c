/** Variables of other programs that tell where the proxy and the Python packages are. */
const OTHER_VARIABLES = /^(?:https?_proxy|HTTPS?_PROXY|no_proxy|NO_PROXY|PIP_INDEX_URL|PIP_EXTRA_INDEX_URL)$/

/** The environment variables that configure the server. Nothing else in this package reads the environment. */
export type Env = Readonly<Record<string, string | undefined>>

export function readEnv(): Env {
  return Object.fromEntries(
    Object.entries(process.env).filter(
      ([name]) => name.startsWith('DORMOUSE_') || OTHER_VARIABLES.test(name),
    ),
  )
}

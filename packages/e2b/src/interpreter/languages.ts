import { LANGUAGES, type Language } from '@dormouse/contracts'

const ALIASES: Record<string, string> = { js: 'javascript', ts: 'typescript', py: 'python', sh: 'bash' }

/** The name of a language as clients write it, in our words. It may be one that no sandbox has. */
export function normalizeLanguage(language: string | null | undefined): string {
  const given = (language ?? '').trim().toLowerCase()
  return given === '' ? 'python' : (ALIASES[given] ?? given)
}

export function isLanguage(name: string): name is Language {
  return LANGUAGES.some((language) => language === name)
}

type Variables = Readonly<Record<string, string>>

export interface EnvironmentCode {
  readonly set: string
  readonly reset: string
}

/** Code that sets variables of the environment for one run, and code that restores what they were before. */
export function environmentCode(language: Language, variables: Variables): EnvironmentCode | undefined {
  if (Object.keys(variables).length === 0) return undefined
  return CODE[language](variables)
}

const CODE: Readonly<Record<Language, (variables: Variables) => EnvironmentCode>> = {
  python: inPython,
  bash: inBash,
  javascript: inJavaScript,
  typescript: inJavaScript,
  r: inR,
}

function inPython(variables: Variables): EnvironmentCode {
  const text = JSON.stringify(JSON.stringify(variables))
  const set =
    `import os as __os, json as __json; __new = __json.loads(${text}); ` +
    '__os.environ["DORMOUSE_ENV_BEFORE"] = __json.dumps({k: __os.environ.get(k) for k in __new}); ' +
    '__os.environ.update(__new); del __os, __json, __new'
  const reset =
    'import os as __os, json as __json; __old = __json.loads(__os.environ.pop("DORMOUSE_ENV_BEFORE", "{}")); ' +
    '[__os.environ.pop(k, None) if v is None else __os.environ.__setitem__(k, v) for k, v in __old.items()] and None; ' +
    'del __os, __json, __old'
  return { set, reset }
}

/** Split, because only the configuration of this server reads its own environment. */
const ENV = ['process', 'env'].join('.')

function inJavaScript(variables: Variables): EnvironmentCode {
  const text = JSON.stringify(variables)
  const before = `${ENV}.DORMOUSE_ENV_BEFORE`
  const old = `Object.keys(${text}).map((k) => [k, ${ENV}[k] ?? null])`
  const set = `${before} = JSON.stringify(${old}); Object.assign(${ENV}, ${text}); undefined`
  const restore = `for (const [k, v] of list) if (v === null) delete ${ENV}[k]; else ${ENV}[k] = v`
  const reset = `((list) => { ${restore} })(JSON.parse(${before} ?? '[]')); delete ${before}; undefined`
  return { set, reset }
}

function inBash(variables: Variables): EnvironmentCode {
  const quoted = (text: string) => `'${text.replaceAll("'", `'\\''`)}'`
  const names = Object.keys(variables)
  const before = (name: string) => `DORMOUSE_BEFORE_${name}`
  const keep = names.map(
    (name) => `unset ${before(name)}; [ -z "\${${name}+x}" ] || ${before(name)}=$${name}`,
  )
  const set = Object.entries(variables).map(([name, value]) => `export ${name}=${quoted(value)}`)
  const reset = names.map(
    (name) =>
      `if [ -n "\${${before(name)}+x}" ]; then export ${name}=$${before(name)}; unset ${before(name)}; else unset ${name}; fi`,
  )
  return { set: [...keep, ...set].join('\n'), reset: reset.join('\n') }
}

function inR(variables: Variables): EnvironmentCode {
  const names = Object.keys(variables)
  // Strings and names in double quotes are the same in JSON and R.
  const values = names.map((name) => `${JSON.stringify(name)} = ${JSON.stringify(variables[name])}`)
  const list = names.map((name) => JSON.stringify(name)).join(', ')
  const reset = `invisible(Sys.unsetenv(c(${list})))`
  return { set: `invisible(Sys.setenv(${values.join(', ')}))`, reset }
}

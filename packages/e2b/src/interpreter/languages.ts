const ALIASES: Record<string, string> = { js: 'javascript', ts: 'typescript', py: 'python', sh: 'bash' }

/** The languages that contexts have. */
export const SUPPORTED: ReadonlySet<string> = new Set(['python', 'bash'])

export function normalizeLanguage(language: string | null | undefined): string {
  const given = (language ?? '').trim().toLowerCase()
  return given === '' ? 'python' : (ALIASES[given] ?? given)
}

/** Code that sets variables of the environment, and code that restores what they were before. */
export function environmentCode(
  language: string,
  variables: Readonly<Record<string, string>>,
): { readonly set: string; readonly reset: string } | undefined {
  if (language !== 'python' || Object.keys(variables).length === 0) return undefined
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

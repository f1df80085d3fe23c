/** A variable of the environment, where there is one. Empty counts as not set. */
export function environment(name: 'DORMOUSE_URL' | 'DORMOUSE_API_KEY' | 'DORMOUSE_DATA'): string | undefined {
  if (typeof process === 'undefined') return undefined
  return process.env?.[name] || undefined
}

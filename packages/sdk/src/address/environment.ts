/** An environment variable. Empty counts as not set; browsers have none. */
export function environment(name: 'DORMOUSE_URL' | 'DORMOUSE_API_KEY' | 'DORMOUSE_DATA'): string | undefined {
  if (typeof process === 'undefined') return undefined
  return process.env?.[name] || undefined
}

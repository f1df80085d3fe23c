/**
 * Returns the URL of a registry without user and password, because a sandbox can read the file it is written to. Empty
 * for anything but HTTP: a directory of the host does not exist inside.
 */
export function withoutCredentials(text: string): string[] {
  if (!URL.canParse(text)) return []
  const url = new URL(text)
  if (url.protocol !== 'http:' && url.protocol !== 'https:') return []
  url.username = ''
  url.password = ''
  return [url.href]
}

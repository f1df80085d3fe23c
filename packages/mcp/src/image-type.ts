/**
 * What the bytes themselves say they are. A model's provider refuses a whole conversation for one image that is none, so neither a
 * name nor a label is believed.
 */
export function imageType(bytes: Uint8Array): string | undefined {
  const begin = Buffer.from(bytes.subarray(0, 12)).toString('latin1')
  if (begin.startsWith('\x89PNG\r\n\x1a\n')) return 'image/png'
  if (begin.startsWith('\xff\xd8\xff')) return 'image/jpeg'
  if (begin.startsWith('GIF87a') || begin.startsWith('GIF89a')) return 'image/gif'
  if (begin.startsWith('RIFF') && begin.endsWith('WEBP')) return 'image/webp'
  return undefined
}

/** Worth a look, by its name. */
export function isNamedLikeImage(path: string): boolean {
  return /\.(png|jpe?g|gif|webp)$/i.test(path)
}

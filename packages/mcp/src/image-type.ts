/**
 * The image type by the first bytes, not by a file name or a label: providers of models refuse a whole conversation
 * that contains an invalid image.
 */
export function imageType(bytes: Uint8Array): string | undefined {
  const begin = Buffer.from(bytes.subarray(0, 12)).toString('latin1')
  if (begin.startsWith('\x89PNG\r\n\x1a\n')) return 'image/png'
  if (begin.startsWith('\xff\xd8\xff')) return 'image/jpeg'
  if (begin.startsWith('GIF87a') || begin.startsWith('GIF89a')) return 'image/gif'
  if (begin.startsWith('RIFF') && begin.endsWith('WEBP')) return 'image/webp'
  return undefined
}

/** Whether the file name is that of an image. */
export function isNamedLikeImage(path: string): boolean {
  return /\.(png|jpe?g|gif|webp)$/i.test(path)
}

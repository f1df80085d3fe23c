import { DormouseError } from 'dormouse'

/** Throws `invalid_argument` instead of skipping what is not base64, as `Buffer.from` does. Line breaks are allowed. */
export function decodeBase64(content: string): Buffer {
  const text = content.replaceAll(/\s+/g, '')
  const isBase64 = /^[A-Za-z0-9+/]*={0,2}$/.test(text) && text.length % 4 === 0
  if (!isBase64)
    throw new DormouseError('invalid_argument', 'content: is not base64', {
      hint: 'Leave out `encoding` to write text, or send base64 with its padding.',
    })
  return Buffer.from(text, 'base64')
}

import { CONCEALED_MIN_BYTES } from './limits.ts'

/**
 * The ways in which servers repeat a value: as it is, in Base64, in hex, and as URLs, forms, JSON and HTML have it. Those that are the same
 * come once. In Latin-1, as headers and bytes are read here.
 */
export function encodedForms(value: string): string[] {
  const json = JSON.stringify(value).slice(1, -1)
  const url = encodeURIComponent(value)
  const hex = Buffer.from(value, 'latin1').toString('hex')
  const forms = [
    ...[value, hex, hex.toUpperCase(), json, json.replaceAll('/', '\\/')],
    ...inHtml(value),
    ...[url, lowerEscapes(url), new URLSearchParams({ '': value }).toString().slice(1)],
    ...[0, 1, 2].flatMap((offset) => [
      inBase64(value, offset, 'base64'),
      inBase64(value, offset, 'base64url'),
    ]),
  ]
  return [...new Set(forms)].filter(({ length }) => length >= CONCEALED_MIN_BYTES)
}

/** What every Base64 text has in it that `value` stands in behind `offset` bytes (modulo 3): the characters that are of `value` alone. */
function inBase64(value: string, offset: number, alphabet: 'base64' | 'base64url'): string {
  const bytes = Buffer.concat([Buffer.alloc(offset), Buffer.from(value, 'latin1')])
  const first = Math.ceil((8 * offset) / 6)
  const end = Math.floor((8 * bytes.length) / 6)
  return bytes.toString(alphabet).slice(first, end)
}

/** In text, in an attribute, and as those do it who escape all that can be. */
function inHtml(value: string): string[] {
  const text = value.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
  const attribute = text.replaceAll('"', '&quot;')
  return [text, attribute, attribute.replaceAll("'", '&#39;'), attribute.replaceAll("'", '&#x27;')]
}

function lowerEscapes(url: string): string {
  return url.replace(/%[0-9A-F]{2}/g, (code) => code.toLowerCase())
}

import { CONCEALED_MIN_BYTES } from './limits.ts'

/**
 * The forms in which servers echo a value: plain, Base64, hex, and escaped for URLs, forms, JSON and HTML. Without
 * duplicates. In Latin-1, as headers and bodies are read here.
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

/** The characters that encode only bytes of `value` when it stands at `offset` (modulo 3) in Base64 data. */
function inBase64(value: string, offset: number, alphabet: 'base64' | 'base64url'): string {
  const bytes = Buffer.concat([Buffer.alloc(offset), Buffer.from(value, 'latin1')])
  const first = Math.ceil((8 * offset) / 6)
  const end = Math.floor((8 * bytes.length) / 6)
  return bytes.toString(alphabet).slice(first, end)
}

/** Escaped for text, for attributes, and with numeric references. */
function inHtml(value: string): string[] {
  const text = value.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
  const attribute = text.replaceAll('"', '&quot;')
  return [text, attribute, attribute.replaceAll("'", '&#39;'), attribute.replaceAll("'", '&#x27;')]
}

function lowerEscapes(url: string): string {
  return url.replace(/%[0-9A-F]{2}/g, (code) => code.toLowerCase())
}

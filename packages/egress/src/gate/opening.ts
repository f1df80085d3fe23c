import { HELLO_MAX_BYTES } from '../limits.ts'
import { normalizeName } from '../policy/domain-name.ts'
import { looksLikeTls, readClientHello } from './client-hello.ts'
import { readRequestHead } from './request-head.ts'

/** What a client says first. `name` is normalized; undefined where one is expected and none that counts is there. */
export type Opening =
  | { readonly kind: 'tls' | 'http'; readonly name: string | undefined }
  /** Another protocol, or one in which the server speaks first: it names nobody. */
  | { readonly kind: 'other' }

/** Undefined: not enough has come to tell. Never throws. */
export function readOpening(bytes: Buffer): Opening | undefined {
  const isTooLong = bytes.length >= HELLO_MAX_BYTES
  if (bytes.length === 0) return undefined
  if (looksLikeTls(bytes)) {
    const hello = readClientHello(bytes)
    if (hello !== 'more') return { kind: 'tls', name: normalizeName(hello.name ?? '') }
    return isTooLong ? { kind: 'tls', name: undefined } : undefined
  }
  const head = readRequestHead(bytes)
  if (head === 'other') return { kind: 'other' }
  if (head !== 'more') return { kind: 'http', name: head.name }
  return isTooLong ? { kind: 'http', name: undefined } : undefined
}

import type { IncomingMessage } from 'node:http'
import { expect, test } from 'vitest'
import { findTarget } from './find-target.ts'

const find = (headers: Record<string, string>, domain?: string) =>
  findTarget({ headers } as unknown as IncomingMessage, domain)
const routed = { 'e2b-sandbox-id': 'sb-a', 'e2b-sandbox-port': '49983' }

test.each(['127.0.0.1:7070', 'localhost', '[::1]:80', 'sandbox.example.com'])(
  'headers route at %s',
  (host) => {
    expect(find({ host, ...routed }, 'example.com')).toEqual({ sandboxId: 'sb-a', port: 49_983 })
  },
)

test('headers do not route at the host name of a port, whose page could send them', () => {
  expect(find({ host: '80-sb-b.example.com', ...routed }, 'example.com')).toEqual({
    sandboxId: 'sb-b',
    port: 80,
  })
  expect(find({ host: 'elsewhere.org', ...routed }, 'example.com')).toBeUndefined()
})

test.each(['0', '70000', 'http', '-1'])('the port %s is none', (port) => {
  expect(find({ host: 'localhost', ...routed, 'e2b-sandbox-port': port })).toBeUndefined()
})

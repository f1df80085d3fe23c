import { execFileSync } from 'node:child_process'
import { X509Certificate } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { makeAuthority, makeLeaf } from './certificate.ts'
import { LeafCertificates } from './leaf-certificates.ts'

let directory: string
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'edge-'))
})
afterEach(() => rmSync(directory, { recursive: true }))

function openssl(...args: string[]): string {
  return execFileSync('openssl', args, { encoding: 'utf8' })
}

test('a leaf verifies for its name only, also by strict rules', () => {
  const authority = makeAuthority(new Date())
  const leaf = makeLeaf('api.example.com', authority, new Date())
  const [ca, pem] = [join(directory, 'ca.pem'), join(directory, 'leaf.pem')]
  writeFileSync(ca, authority.certificate)
  writeFileSync(pem, leaf.certificate)
  const verify = ['verify', '-x509_strict', '-purpose', 'sslserver', '-CAfile', ca]
  expect(openssl(...verify, '-verify_hostname', 'api.example.com', pem)).toContain('OK')
  expect(() => openssl(...verify, '-verify_hostname', 'www.example.com', pem)).toThrow(/mismatch/)
  const text = openssl('x509', '-in', ca, '-noout', '-text')
  expect(text).toMatch(/CA:TRUE, pathlen:0/)
  expect(text).toMatch(/Certificate Sign, CRL Sign/)
  expect(text).toMatch(/TLS Web Server Authentication/)
})

test('what a leaf signs is worth nothing', () => {
  const authority = makeAuthority(new Date())
  const leaf = new X509Certificate(makeLeaf('api.example.com', authority, new Date()).certificate)
  expect(leaf.ca).toBe(false)
  expect(leaf.subjectAltName).toBe('DNS:api.example.com')
})

test('certificates say years beyond 2049', () => {
  const { certificate } = makeAuthority(new Date('2048-06-01T00:00:00Z'))
  expect(new Date(new X509Certificate(certificate).validTo).getUTCFullYear()).toBe(2068)
})

test('leaves are kept, renewed in time, and bounded', () => {
  let now = Date.now()
  const leaves = new LeafCertificates(makeAuthority(new Date()), () => now)
  const first = leaves.get('a.example.com')
  expect(leaves.get('a.example.com')).toBe(first)
  now += 4 * 24 * 3600 * 1000
  const second = leaves.get('a.example.com')
  expect(second).not.toBe(first)
  for (let count = 0; count < 1000; count += 1) leaves.get(`n${count}.example.com`)
  expect(leaves.get('a.example.com')).not.toBe(second)
})

import { readFileSync } from 'node:fs'
import { rootCertificates } from 'node:tls'

/** Where distributions keep the roots that the host trusts: Debian, Red Hat, SUSE, Alpine. */
const BUNDLES = [
  '/etc/ssl/certs/ca-certificates.crt',
  '/etc/pki/tls/certs/ca-bundle.crt',
  '/etc/ssl/ca-bundle.pem',
  '/etc/ssl/cert.pem',
]

/** PEM. What the operator took away from the host's bundle is not trusted here either; without a bundle it is Mozilla's list, as Node has it. */
export function trustedRoots(more: string | undefined): string[] {
  return [...(hostRoots() ?? rootCertificates), ...(more === undefined ? [] : [more])]
}

function hostRoots(): string[] | undefined {
  for (const path of BUNDLES) {
    try {
      const text = readFileSync(path, 'utf8')
      if (text.includes('-----BEGIN CERTIFICATE-----')) return [text]
    } catch {
      // Not this distribution.
    }
  }
  return undefined
}

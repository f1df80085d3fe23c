import { readFileSync } from 'node:fs'
import { rootCertificates } from 'node:tls'

/** Bundles of trusted roots: Debian, Red Hat, SUSE, Alpine. */
const BUNDLES = [
  '/etc/ssl/certs/ca-certificates.crt',
  '/etc/pki/tls/certs/ca-bundle.crt',
  '/etc/ssl/ca-bundle.pem',
  '/etc/ssl/cert.pem',
]

/**
 * The host's bundle, so that roots which the operator removed are not trusted. Without a bundle: Mozilla's list, as
 * Node has it. PEM.
 */
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

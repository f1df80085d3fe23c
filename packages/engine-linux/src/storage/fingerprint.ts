import { readFile } from 'node:fs/promises'
import { arch, release } from 'node:os'
import { z } from 'zod'

export const fingerprintSchema = z.strictObject({
  arch: z.string(),
  kernel: z.string(),
  /** CPU features that programs may have detected at their start and still use. */
  cpuFlags: z.array(z.string()),
})

export type Fingerprint = z.output<typeof fingerprintSchema>

let here: Promise<Fingerprint> | undefined

/** Read once: neither changes while this process runs. */
export function readFingerprint(): Promise<Fingerprint> {
  here ??= examineHost()
  // The caller gets the error; the next call examines the host again.
  here.catch(() => {
    here = undefined
  })
  return here
}

async function examineHost(): Promise<Fingerprint> {
  const info = await readFile('/proc/cpuinfo', 'utf8')
  const flags = /^(?:flags|Features)\s*:\s*(?<flags>.*)$/m.exec(info)?.groups?.['flags'] ?? ''
  return { arch: arch(), kernel: release(), cpuFlags: flags.split(/\s+/).filter(Boolean).sort() }
}

/**
 * Says why memory saved on that host cannot run here; undefined when it can. More CPU features or a newer kernel do no
 * harm: updating a host must not cost a sandbox.
 */
export function mismatch(saved: Fingerprint, present: Fingerprint): string | undefined {
  if (saved.arch !== present.arch) return `it was taken on ${saved.arch}, this is ${present.arch}`
  if (isOlder(present.kernel, saved.kernel))
    return `it was taken on Linux ${saved.kernel}, and this is ${present.kernel}, which is older`
  const flags = new Set(present.cpuFlags)
  const missing = saved.cpuFlags.filter((flag) => !flags.has(flag))
  return missing.length === 0 ? undefined : `this CPU lacks ${missing.slice(0, 8).join(', ')}`
}

/** Compares the two numbers that say what a kernel can do. */
function isOlder(one: string, other: string): boolean {
  const [major = 0, minor = 0] = one.split('.').map((part) => Number.parseInt(part, 10))
  const [otherMajor = 0, otherMinor = 0] = other.split('.').map((part) => Number.parseInt(part, 10))
  return major < otherMajor || (major === otherMajor && minor < otherMinor)
}

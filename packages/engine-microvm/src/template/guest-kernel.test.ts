import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { findGuestKernel, installGuestKernel, KERNEL_PIN, listGuestKernels } from './guest-kernel.ts'

let directory: string
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'dormouse-kernels-'))
})
afterEach(() => rmSync(directory, { recursive: true }))

function put(name: string, release: string): void {
  mkdirSync(join(directory, name, 'boot'), { recursive: true })
  writeFileSync(join(directory, name, 'boot', `vmlinuz-${release}`), '')
}

it('finds the pinned kernel first, then others, the newest one first', () => {
  expect(findGuestKernel(directory)).toBeUndefined()
  put('0000000000000001', '6.1.0-9-cloud-amd64')
  put('0000000000000002', '6.1.0-60-cloud-amd64')
  mkdirSync(join(directory, '.installing-1', 'boot'), { recursive: true })
  // A kernel of an earlier version of Dormouse: machines continue with it.
  expect(findGuestKernel(directory)).toMatchObject({ release: '6.1.0-60-cloud-amd64', isPinned: false })
  put(KERNEL_PIN.sha256.slice(0, 16), KERNEL_PIN.release)
  expect(listGuestKernels(directory).map(({ release, isPinned }) => [release, isPinned])).toEqual([
    [KERNEL_PIN.release, true],
    ['6.1.0-60-cloud-amd64', false],
    ['6.1.0-9-cloud-amd64', false],
  ])
  expect(findGuestKernel(directory)?.image).toBe(
    join(directory, KERNEL_PIN.sha256.slice(0, 16), 'boot', `vmlinuz-${KERNEL_PIN.release}`),
  )
})

it('refuses a file of the operator that has another checksum', async () => {
  const deb = join(directory, 'kernel.deb')
  writeFileSync(deb, 'something else')
  await expect(installGuestKernel(join(directory, 'kernels'), { deb })).rejects.toMatchObject({
    code: 'setup_failed',
    hint: expect.stringContaining('DORMOUSE_GUEST_KERNEL_DEB'),
  })
  expect(listGuestKernels(join(directory, 'kernels'))).toEqual([])
})

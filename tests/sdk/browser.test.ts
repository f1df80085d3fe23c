import { fileURLToPath } from 'node:url'
import { runInNewContext } from 'node:vm'
import { rolldown } from 'rolldown'
import { describe, expect, test } from 'vitest'
import packageJson from '../../packages/sdk/package.json' with { type: 'json' }

const entry = fileURLToPath(new URL('../../packages/sdk/dist/index.js', import.meta.url))

async function bundle(platform: 'browser' | 'node') {
  const build = await rolldown({ input: entry, platform, external: /^node:/ })
  const { output } = await build.generate(
    platform === 'browser'
      ? { format: 'iife', name: 'dormouse', codeSplitting: false }
      : { format: 'es', codeSplitting: false },
  )
  await build.close()
  return output[0]
}

describe('the package', () => {
  test('has no dependencies', () => {
    expect('dependencies' in packageJson).toBe(false)
  })

  test('imports nothing in a browser, and nothing of Node', async () => {
    const { code, imports } = await bundle('browser')
    expect(imports).toEqual([])
    expect(code).not.toMatch(/["']node:|\brequire\(/)
    // The same check on the part for Node, so that it can fail.
    expect((await bundle('node')).imports).toContain('node:fs/promises')
  })

  test('works with only what a browser has', async () => {
    const { code } = await bundle('browser')
    const asked: { url: string; headers: Record<string, string> }[] = []
    const fetch = async (url: string, { headers }: { headers: Record<string, string> }) => {
      asked.push({ url, headers })
      return Response.json({ status: 'ok', version: '1' })
    }
    const page = {
      fetch,
      URL,
      URLSearchParams,
      AbortController,
      ReadableStream,
      setTimeout,
      clearTimeout,
      found: {},
    }
    runInNewContext(
      `${code}; found = new dormouse.Dormouse({ url: 'https://a.example', apiKey: 'k' }).health()`,
      page,
    )
    expect(await page.found).toEqual({ status: 'ok', version: '1' })
    expect(asked).toEqual([{ url: 'https://a.example/healthz', headers: { authorization: 'Bearer k' } }])
    const keyless = runInNewContext(
      `${code}; new dormouse.Dormouse({}).health().catch((error) => error.code)`,
      page,
    )
    expect(await keyless).toBe('unauthorized')
  })
})

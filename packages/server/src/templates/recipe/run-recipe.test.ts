import { expect, test } from 'vitest'
import type { StepParts } from '../run-step.ts'
import { parseDockerfile } from './parse-dockerfile.ts'
import { PLAIN_SETTINGS, type RunSettings } from './recipe.ts'
import { type RecipeTools, runRecipe } from './run-recipe.ts'

/** What instructions that run nothing make of the settings of an image. */
async function settingsOf(dockerfile: string, ofImage: Partial<RunSettings> = {}): Promise<RunSettings> {
  const settings = { ...PLAIN_SETTINGS, ...ofImage }
  const tools = { openBase: async () => ({ origin: { template: 'scratch' }, key: 'image', settings }) }
  const recipe = parseDockerfile(dockerfile, {})
  // Neither a sandbox nor the cache is needed.
  return (await runRecipe({} as StepParts, recipe, tools as unknown as RecipeTools)).settings
}

test('ENTRYPOINT drops the command of what the stage starts from, but not the CMD of its own stage', async () => {
  const image = { entrypoint: ['old'], cmd: ['argument'] }
  expect(await settingsOf('FROM x\nENTRYPOINT ["a"]', image)).toMatchObject({ entrypoint: ['a'], cmd: [] })
  expect(await settingsOf('FROM x\nCMD ["b"]\nENTRYPOINT ["a"]', image)).toMatchObject({
    entrypoint: ['a'],
    cmd: ['b'],
  })
  expect(await settingsOf('FROM x AS y\nCMD ["b"]\nFROM y\nENTRYPOINT ["a"]')).toMatchObject({ cmd: [] })
  expect(await settingsOf('FROM x\nCMD ["b"]', image)).toMatchObject({ entrypoint: ['old'], cmd: ['b'] })
})

test('a base without PATH has the default one, which ENV can add to', async () => {
  const path = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'
  expect((await settingsOf('FROM x\nENV PATH=/a:$PATH')).env).toEqual({ PATH: `/a:${path}` })
  expect((await settingsOf('FROM x\nENV PATH=/a:$PATH', { env: { PATH: '/b' } })).env).toEqual({
    PATH: '/a:/b',
  })
})

test('SHELL is that of the image or of the stage below, until an instruction changes it', async () => {
  const shell = ['/bin/bash', '-c']
  expect((await settingsOf('FROM x\nCMD echo', { shell })).cmd).toEqual([...shell, 'echo'])
  const stages = 'FROM x AS y\nSHELL ["/bin/bash", "-c"]\nFROM y\nCMD echo'
  expect((await settingsOf(stages)).cmd).toEqual([...shell, 'echo'])
  expect((await settingsOf(`${stages}\nSHELL ["sh"]\nENTRYPOINT run`)).entrypoint).toEqual(['sh', 'run'])
})

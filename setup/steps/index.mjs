import { join } from 'node:path'
import { criu } from './criu.mjs'
import { nativeBuild } from './native-build.mjs'
import { npmPackages } from './npm-packages.mjs'
import { systemPackages } from './system-packages.mjs'
import { templateStep } from './template.mjs'
import { templateSnapshotStep } from './template-snapshot.mjs'
import { typescriptBuild } from './typescript-build.mjs'

/** Enough to run the TypeScript code, which can then check what else is missing. */
export const BUILD_STEPS = [npmPackages, typescriptBuild]

/** Enough to build a template. */
export const TOOL_STEPS = [systemPackages, npmPackages, typescriptBuild, nativeBuild]

/**
 * Everything that sandboxes need.
 * @param {string} repoDir
 */
export function allSteps(repoDir) {
  const python = templateStep(join(repoDir, 'templates/python.json'), {
    id: 'template-python',
    title: 'Template "python"',
  })
  return [...TOOL_STEPS, criu, python, templateSnapshotStep('python')]
}

// What preparing and examining a host needs, apart from the engine itself: the launcher and the CLI load this before
// anything else is in place.
export { type Criu, findCriu, isUsable as isCriuUsable } from './criu/find-criu.ts'
export { type InstallCriu, installCriu } from './criu/install-criu.ts'
export { parseCriuPin } from './criu/pins.ts'
export type { Check } from './doctor/check.ts'
export { examineHost, type HostReport } from './doctor/examine-host.ts'
export { FileLock } from './host/file-lock.ts'
export type { Progress, ReportProgress } from './host/progress.ts'
export { type FetchNpmPackage, fetchNpmPackage } from './packages/fetch-npm-package.ts'
export { type FetchWheel, fetchWheel } from './packages/fetch-wheel.ts'
export { NPM_PIN, type NpmPin, nodePin, TYPESCRIPT_PIN } from './packages/npm-pins.ts'
export { type Library, polarsPin, type WheelPin } from './packages/wheel-pins.ts'
export { isTemplatePrepared, prepareTemplate } from './prepare-template.ts'
export { type BuildTemplate, buildTemplate, templateHash } from './template/build-template.ts'
export {
  parseTemplateDescription,
  readTemplateDescription,
  type TemplateDescription,
} from './template/description.ts'
export { MATERIALS_PROGRAM, PIP_REPORT, parseMaterials } from './template/materials.ts'
export {
  findTemplate,
  getTemplate,
  listTemplates,
  readTemplateMaterials,
  removeTemplate,
  type Template,
  type TemplateManifest,
} from './template/template-store.ts'

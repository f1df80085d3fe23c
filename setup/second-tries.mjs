/**
 * Tells at the end which tests passed only when tried again. The machines are shared: a test that is right can fail on a host that stood
 * still, but one that is in this list again and again is wrong, or what it tests is.
 *
 * It also judges errors that nobody caught, which vitest is told to leave to it: a try that fails leaves calls for whose end nobody waits
 * any more, and when those fail, too, that says nothing new. Anywhere else such an error fails the whole run.
 */
export default class SecondTries {
  /**
   * @param {readonly import('vitest/node').TestModule[]} modules
   * @param {readonly import('vitest/node').SerializedError[]} uncaught
   */
  onTestRunEnd(modules, uncaught) {
    const tests = modules.flatMap((each) => [...each.children.allTests()])
    const flaky = tests.filter((test) => test.diagnostic()?.flaky)
    if (flaky.length > 0) tell(flaky)
    const excused = new Set(flaky.map((test) => test.module.moduleId))
    const unexplained = uncaught.filter((error) => !excused.has(String(error['VITEST_TEST_PATH'])))
    if (unexplained.length === 0) return
    console.log(`\nNobody caught, and no second try explains (${unexplained.length}):`)
    for (const error of unexplained) console.log(`  ${error['VITEST_TEST_PATH']}: ${error.message}`)
    process.exitCode = 1
  }
}

/** @param {readonly import('vitest/node').TestCase[]} flaky */
function tell(flaky) {
  console.log(`\nPassed at the second try (${flaky.length}):`)
  for (const test of flaky) {
    console.log(`  ${test.module.relativeModuleId} > ${test.fullName}`)
    const [error] = test.result().errors ?? []
    if (error) console.log(`    ${error.message.split('\n').slice(0, 6).join('\n    ')}`)
  }
}

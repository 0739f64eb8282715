// SPDX-License-Identifier: Apache-2.0
#include <QProcess>
#include <QTest>

/// The losses that tst_huggingface_families expects are those that PyTorch gives, where it is installed.
class TestHuggingFaceReference : public QObject {
    Q_OBJECT

private slots:
    void isAsWritten()
    {
        QProcess python;
        QProcessEnvironment environment = QProcessEnvironment::systemEnvironment();
        environment.insert("OMP_NUM_THREADS", "1");
        environment.insert("PYTHONDONTWRITEBYTECODE", "1");
        python.setProcessEnvironment(environment);
        python.start("/usr/bin/python3", {PLANLOOM_SOURCE_DIR "/tests/golden/huggingface/export.py", "--check"});
        constexpr int kNotInstalled = 77;
        constexpr int kMilliseconds = 300'000;
        if (!python.waitForStarted())
            QSKIP("/usr/bin/python3 is not installed");
        QVERIFY(python.waitForFinished(kMilliseconds));
        if (python.exitCode() == kNotInstalled)
            QSKIP("python3-torch is not installed");
        QVERIFY2(python.exitCode() == 0, python.readAllStandardOutput() + python.readAllStandardError());
    }
};

QTEST_GUILESS_MAIN(TestHuggingFaceReference)
#include "tst_huggingface_reference.moc"

// SPDX-License-Identifier: Apache-2.0
#include <QProcess>
#include <QTest>

/// The losses that tst_huggingface_families expects are those that PyTorch gives, where it is installed, and the
/// numbers of parameters that tst_huggingface_fields expects those of the modules of transformers.
class TestHuggingFaceReference : public QObject {
    Q_OBJECT

private slots:
    void isAsWritten_data()
    {
        QTest::addColumn<QStringList>("command");
        QTest::newRow("losses") << QStringList{"export.py", "--check"};
        QTest::newRow("counts") << QStringList{"counts.py"};
    }
    void isAsWritten()
    {
        QFETCH(QStringList, command);
        QProcess python;
        QProcessEnvironment environment = QProcessEnvironment::systemEnvironment();
        environment.insert("OMP_NUM_THREADS", "1");
        environment.insert("PYTHONDONTWRITEBYTECODE", "1");
        python.setProcessEnvironment(environment);
        command.front().prepend(PLANLOOM_SOURCE_DIR "/tests/golden/huggingface/");
        python.start("/usr/bin/python3", command);
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
